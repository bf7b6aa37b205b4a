-- Moves the progress of a shard forward, for the node that owns the shard. Progress is a count of milliseconds in the
-- marker; it goes back only if the data of the shard did. See rollback.rs.
--
-- KEYS  seq
-- ARGV  1 highest progress that the node has seen here, or 0  2 ms behind from which on it is a rollback
--       3 '1' to hold the shard after a rollback until an operator confirms it
-- reply progress, by how many ms the shard was rolled back, or 0
expect_marker()
local key = K .. 'marker'
local stored, seen = tonumber(call('HGET', key, 'progress') or '0'), tonumber(ARGV[1])
local behind = seen - stored
if behind <= tonumber(ARGV[2]) then behind = 0 end
local progress = math.max(now, stored + 1, seen)
write('HSET', key, 'progress', digits(progress))
if behind > 0 and ARGV[3] == '1' then
  write('HSET', key, 'held', digits(behind))
  write('SPUBLISH', K .. 'wake', NUL)
end
flush()
return { digits(progress), digits(behind) }
