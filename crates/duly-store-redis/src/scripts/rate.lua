-- Keeps the schedule rate of a namespace, at its coordinator shard for all shards: a generic cell rate algorithm. Its
-- state is the time until which the rate is used up, in whole microseconds. A burst may be as large as one second's
-- rate.
local REACH = 1000000
local function rate_of(num)
  local per_second = tonumber(call('HGET', K .. 'n:' .. num, 'rate') or '')
  if not per_second then return nil end
  local told = tonumber(call('HGET', K .. 'c:' .. num, 'spoken') or '0')
  -- A state further ahead than grants can reach is from before a step back of the clock: it is ignored.
  local is_over = told < now * 1000 or told > now * 1000 + 2 * REACH
  return { num = num, per_second = per_second, interval = REACH / per_second, told = told,
           spoken = is_over and now * 1000 or told }
end
-- Returns the number of schedule operations allowed now. A hundredth compensates for the rounding in rate_take.
local function rate_free(rate)
  return math.max(floor((REACH - rate.spoken + now * 1000) * rate.per_second / REACH + 0.01), 0)
end
-- Returns the milliseconds until another one is allowed.
local function rate_wait(rate)
  return math.max(math.ceil((rate.spoken + rate.interval - now * 1000 - REACH) / 1000), 0)
end
local function rate_take(rate, count)
  if count == 0 then return end
  rate.spoken = math.ceil(rate.spoken + count * rate.interval)
  write('HSET', K .. 'c:' .. rate.num, 'spoken', digits(rate.spoken))
end
