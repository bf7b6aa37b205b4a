-- Drops stubs that are over, or more than are kept, those that ended first before the others.
--
-- KEYS  seq
-- ARGV  1 namespace  2 most to drop
-- reply how many were dropped
local num = call('HGET', K .. 'nn', ARGV[1])
local ctl = num and control(num)
if not ctl then return 0 end
local list = K .. 'sl:' .. num
local over = call('ZCARD', list) - ctl.a_retained
local dropped = 0
for _, id in ipairs(call('ZRANGE', list, 0, tonumber(ARGV[2]) - 1)) do
  if over <= 0 and not stub_is_over(ctl, call('GETRANGE', K .. 's:' .. num .. ':' .. id, 0, 6)) then break end
  over = over - 1
  dropped = dropped + 1
  drop_stub(num, id)
end
flush()
return dropped
