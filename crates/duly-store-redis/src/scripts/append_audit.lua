-- Adds entries to the audit log, and removes those that are too many or too old. See audit.rs.
--
-- KEYS  seq
-- ARGV  1 entries that are kept  2 lowest id that is kept  then entries: id NUL line
-- reply nothing
expect_marker()
local log = K .. 'audit'
local add = { 'ZADD', log }
for i = 3, #ARGV do
  add[#add + 1] = '0'
  add[#add + 1] = ARGV[i]
end
write(unpack(add))
write('ZREMRANGEBYLEX', log, '-', '(' .. ARGV[2])
write('ZREMRANGEBYRANK', log, '0', digits(-tonumber(ARGV[1]) - 1))
flush()
return {}
