-- The rate of schedules of a namespace: a generic cell rate algorithm whose whole state is until when
-- the rate is spoken for, in whole microseconds. A second's worth may come at once. The home keeps it
-- for all shards.
local REACH = 1000000
local function rate_of(num)
  local per_second = tonumber(call('HGET', K .. 'n:' .. num, 'rate') or '')
  if not per_second then return nil end
  local told = tonumber(call('HGET', K .. 'c:' .. num, 'spoken') or '0')
  -- What lies further ahead than can be spoken for is of a clock that has stepped back: nothing to wait for.
  local is_over = told < now * 1000 or told > now * 1000 + 2 * REACH
  return { num = num, per_second = per_second, interval = REACH / per_second, told = told,
           spoken = is_over and now * 1000 or told }
end
-- How many schedules it allows now. A hundredth makes up for what rate_take rounds up.
local function rate_free(rate)
  return math.max(floor((REACH - rate.spoken + now * 1000) * rate.per_second / REACH + 0.01), 0)
end
-- How many milliseconds until it allows another one.
local function rate_wait(rate)
  return math.max(math.ceil((rate.spoken + rate.interval - now * 1000 - REACH) / 1000), 0)
end
local function rate_take(rate, count)
  if count == 0 then return end
  rate.spoken = math.ceil(rate.spoken + count * rate.interval)
  write('HSET', K .. 'c:' .. rate.num, 'spoken', digits(rate.spoken))
end
