-- Drops tombstones that are over, or more than are kept, those that ended first before the others.
--
-- KEYS  seq
-- ARGV  1 namespace  2 most to look at
-- reply how many were dropped
local num = num_of(ARGV[1])
local ctl = num and control(num)
if not ctl then return 0 end
local dropped = trim_tombstones(ctl, 0, nil, tonumber(ARGV[2]))
flush()
return dropped
