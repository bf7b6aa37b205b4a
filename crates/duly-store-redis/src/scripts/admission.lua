-- Checks limits before a new timer is admitted. Each function returns nil, or the reply that refuses.

-- Checks the limit of pending timers for one more.
local function admit_one_more(ctl)
  if not ctl.a_pending then return nil end
  local pending = tonumber(call('HGET', K .. 'c:' .. ctl.num, 'pending') or '0')
  if pending < ctl.a_pending then return nil end
  return { 'PENDING', digits(now) }
end

-- Checks the limit of dead letters for one more that a caller makes on purpose (import, or a call that dead-letters).
local function admit_one_letter(ctl)
  if call('ZCARD', K .. 'dead:' .. ctl.num) < ctl.own_dead then return nil end
  return { 'DEAD', digits(now) }
end

-- Checks `schedule_per_second` for one more schedule operation. `how` is 'home' if this is the coordinator shard,
-- 'held' if the coordinator shard has granted the operation, and 'ask' if it must be asked where there is a rate.
local function admit_schedule(ctl, how)
  local rate = how ~= 'held' and rate_of(ctl.num)
  if not rate then return nil end
  if how == 'ask' then return { 'ASK', digits(now) } end
  if rate_free(rate) < 1 then return { 'RATE', digits(now), digits(rate_wait(rate)) } end
  rate_take(rate, 1)
  return nil
end
