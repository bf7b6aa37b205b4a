-- Returns the state of a namespace in this shard.
--
-- KEYS  seq
-- ARGV  1 namespace
-- reply now, then nothing if the shard does not have it, else: number, version, created at, pending timers, dead letters
local num = num_of(ARGV[1])
if not num then return { now_text } end
local f = call('HMGET', K .. 'n:' .. num, 'ver', 'created')
return { now_text, num, f[1] or '0', f[2] or '0', call('HGET', K .. 'c:' .. num, 'pending') or '0',
  digits(call('ZCARD', K .. 'dead:' .. num)) }
