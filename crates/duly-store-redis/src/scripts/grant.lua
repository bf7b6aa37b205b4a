-- Grants schedules of the rate of a namespace, at its home, to a node that makes them in another shard;
-- or takes back what was granted last and not needed, if nothing was granted since.
--
-- KEYS  seq
-- ARGV  1 namespace  2 how many  3 '' or, to give back, the mark of the grant
-- reply NONE now | FREE now (there is no limit) | OK now granted mark wait_ms
local num = num_of(ARGV[1])
local rate = num and rate_of(num)
if not rate then
  touch_seq()
  return { num and 'FREE' or 'NONE', digits(now) }
end
local count, wait = tonumber(ARGV[2]), 0
if ARGV[3] == '' then
  local asked = count
  count = math.min(count, rate_free(rate))
  rate_take(rate, count)
  if count < asked then wait = rate_wait(rate) end
elseif digits(rate.told) == ARGV[3] then
  write('HSET', K .. 'c:' .. num, 'spoken', digits(math.ceil(rate.told - count * rate.interval)))
end
flush()
return { 'OK', digits(now), digits(count), digits(rate.spoken), digits(wait) }
