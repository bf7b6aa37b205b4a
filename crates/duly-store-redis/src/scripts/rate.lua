-- The rate of schedules of a namespace: a generic cell rate algorithm whose whole state is until when
-- the rate is spoken for, in microseconds. The home keeps it for all shards.
local function rate_of(num)
  local f = call('HMGET', K .. 'n:' .. num, 'rate_us', 'rate_burst')
  local interval = tonumber(f[1] or '')
  if not interval then return nil end
  local told = tonumber(call('HGET', K .. 'c:' .. num, 'spoken') or '0')
  return { num = num, interval = interval, reach = interval * tonumber(f[2]), told = told,
           spoken = math.max(told, now * 1000) }
end
-- How many schedules it allows now.
local function rate_free(rate)
  return math.max(floor((rate.reach - rate.spoken + now * 1000) / rate.interval), 0)
end
-- How many milliseconds until it allows another one.
local function rate_wait(rate)
  return math.max(math.ceil((rate.spoken + rate.interval - now * 1000 - rate.reach) / 1000), 0)
end
local function rate_take(rate, count)
  if count == 0 then return end
  rate.spoken = rate.spoken + count * rate.interval
  write('HSET', K .. 'c:' .. rate.num, 'spoken', digits(rate.spoken))
end
