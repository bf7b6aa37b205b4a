-- Grants schedule operations of a namespace's rate, at its coordinator shard, to a node that executes them in another
-- shard. Also takes back the unused part of the last grant, if nothing was granted since.
--
-- KEYS  seq
-- ARGV  1 namespace  2 count  3 '' or, to give back, the mark of the grant
-- reply NONE now | FREE now (there is no rate) | OK now granted mark wait_ms
local num = num_of(ARGV[1])
local rate = num and rate_of(num)
if not rate then return unchanged(num and 'FREE' or 'NONE', now_text) end
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
