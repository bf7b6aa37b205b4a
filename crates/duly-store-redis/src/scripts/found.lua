-- Founds a deployment in an empty database, or tells which one is there.
--
-- KEYS  seq (of shard 0)
-- ARGV  1 format  2 shards  3 name of a new deployment
-- reply format, shards, name
local key = K .. 'deployment'
local f = call('HMGET', key, 'format', 'shards', 'name')
if f[1] then return { f[1], f[2], f[3] } end
write('HSET', key, 'format', ARGV[1], 'shards', ARGV[2], 'name', ARGV[3])
flush()
return { ARGV[1], ARGV[2], ARGV[3] }
