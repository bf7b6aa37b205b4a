-- What a shard has of a limit, how much of that is used, and what moved between it and the others. It
-- writes, so that it waits for replicas where changes do: nobody acts on a gift that could be undone.
--
-- KEYS  seq
-- ARGV  1 namespace  2 number  3 'pending' or 'dead'
-- reply NONE now (no such namespace here) |
--       OK now version deal, '1' if dealt, limit of all shards or '', allowance, used, '1' while
--       something has ended and is not cleared away, then name and value of what moved
local num = ARGV[2]
touch_seq()
if num_of(ARGV[1]) ~= num then return { 'NONE', digits(now) } end
local q = quota_of(num, ARGV[3])
local out = { 'OK', digits(now), q.ver, q.deal, q.moved and '1' or '0', q.max,
  digits(math.max((q.share or 0) + (q.moved or 0), 0)), digits(q.used), owed() and '1' or '0' }
for _, moved in ipairs(call('HGETALL', q.key)) do out[#out + 1] = moved end
return out
