-- Limits at which a new timer is refused. Each answers nil, or the reply that says so.

-- One more pending timer.
local function admit_one_more(ctl)
  if not ctl.a_pending then return nil end
  local pending = tonumber(call('HGET', K .. 'c:' .. ctl.num, 'pending') or '0')
  if pending < ctl.a_pending then return nil end
  return { 'PENDING', digits(now) }
end

-- One more dead letter, of those that somebody makes on purpose.
local function admit_one_letter(ctl)
  if call('ZCARD', K .. 'dead:' .. ctl.num) < ctl.own_dead then return nil end
  return { 'DEAD', digits(now) }
end

-- One more schedule of those that the rate allows: 'home' when this shard keeps it, 'held' when the
-- home has granted one, 'ask' when it is to be asked if there is a rate.
local function admit_schedule(ctl, how)
  local rate = how ~= 'held' and rate_of(ctl.num)
  if not rate then return nil end
  if how == 'ask' then return { 'ASK', digits(now) } end
  if rate_free(rate) < 1 then return { 'RATE', digits(now), digits(rate_wait(rate)) } end
  rate_take(rate, 1)
  return nil
end
