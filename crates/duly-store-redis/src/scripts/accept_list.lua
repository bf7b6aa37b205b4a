-- Accepts a list of coordinator shards of the members, if its version is higher than that of the present list.
-- See coordinators.rs.
--
-- KEYS  seq
-- ARGV  1 the list  2 the list before it, or ''
-- reply the list that this shard has now, and the one before it
expect_marker()
local key = K .. 'marker'
local f = call('HMGET', key, 'list', 'prev')
local function version(list)
  return tonumber(match(list, '^%d+'))
end
if version(ARGV[1]) > version(f[1]) then
  f = { ARGV[1], ARGV[2] }
  write('HSET', key, 'list', f[1], 'prev', f[2])
end
flush()
return { f[1], f[2] }
