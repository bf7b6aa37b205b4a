-- Reads entries of the audit log, the newest first. See audit.rs.
--
-- KEYS  seq
-- ARGV  1 id before which to begin, or ''  2 most
-- reply entries: id NUL line
expect_marker()
local from = ARGV[1] == '' and '+' or '(' .. ARGV[1]
return call('ZREVRANGEBYLEX', K .. 'audit', from, '-', 'LIMIT', '0', ARGV[2])
