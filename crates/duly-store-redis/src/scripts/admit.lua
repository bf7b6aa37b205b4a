-- Limits at which a new timer is refused. Each answers nil, or the reply that says so.

-- One more pending timer.
local function admit_one_more(ctl)
  if not ctl.a_pending then return nil end
  local pending = tonumber(call('HGET', K .. 'c:' .. ctl.num, 'pending') or '0')
  if pending < ctl.a_pending then return nil end
  return { 'PENDING', digits(now) }
end

-- One more schedule of those that the rate allows: a generic cell rate algorithm whose whole state
-- is until when the rate is spoken for, in microseconds.
local function admit_schedule(ctl)
  local f = call('HMGET', K .. 'n:' .. ctl.num, 'rate_us', 'rate_burst')
  local interval = tonumber(f[1] or '')
  if not interval then return nil end
  local spoken = tonumber(call('HGET', K .. 'c:' .. ctl.num, 'spoken') or '0')
  local now_us = now * 1000
  local till = math.max(spoken, now_us) + interval
  local over = till - now_us - interval * tonumber(f[2])
  if over > 0 then return { 'RATE', digits(now), digits(math.ceil(over / 1000)) } end
  write('HSET', K .. 'c:' .. ctl.num, 'spoken', digits(till))
  return nil
end
