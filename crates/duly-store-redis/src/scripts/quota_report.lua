-- Reports what a shard has of a limit, how much of that is used, and its transfers. It writes, so it waits for replicas
-- as changes do: a sent total that could be undone must not be acted on.
--
-- KEYS  seq
-- ARGV  1 namespace  2 number  3 'pending' or 'dead'
-- reply NONE now (no such namespace here) |
--       OK now version, version that names the allocation, '1' if allocated, limit of all shards or '', quota, used, '1'
--       if something has ended and is not swept, then field and value of each transfer total
local num = ARGV[2]
touch_seq()
if num_of(ARGV[1]) ~= num then return { 'NONE', digits(now) } end
local q = quota_of(num, ARGV[3])
local out = { 'OK', digits(now), q.ver, q.deal, q.moved and '1' or '0', q.max,
  digits(math.max((q.share or 0) + (q.moved or 0), 0)), digits(q.used), owed() and '1' or '0' }
for _, moved in ipairs(call('HGETALL', q.key)) do out[#out + 1] = moved end
return out
