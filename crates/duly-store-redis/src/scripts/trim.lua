-- Drops tombstones whose retention is over, and those above the limit, the oldest first.
--
-- KEYS  seq
-- ARGV  1 namespace  2 most entries to read
-- reply number of entries that were removed
local num = num_of(ARGV[1])
local ctl = num and control(num)
if not ctl then return 0 end
local dropped = trim_tombstones(ctl, 0, nil, tonumber(ARGV[2]))
flush()
return dropped
