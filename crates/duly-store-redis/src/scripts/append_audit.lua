-- Adds entries to the audit log, and removes those that are named or too old. See audit.rs.
--
-- KEYS  seq
-- ARGV  1 lowest id that is kept  2 entries to add  then those, then entries to remove: id NUL line
-- reply number of entries, with those that were there already counted twice
expect_marker()
local log, added = K .. 'audit', tonumber(ARGV[2])
local count = call('ZCARD', log) + added
for i = 3, #ARGV do
  if i < 3 + added then gather('ZADD', log, '0', ARGV[i]) else gather('ZREM', log, ARGV[i]) end
end
write('ZREMRANGEBYLEX', log, '-', '(' .. ARGV[1])
flush()
return { digits(count) }
