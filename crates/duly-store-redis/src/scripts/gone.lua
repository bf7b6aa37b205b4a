-- Ends a namespace in this shard with all its timers, stubs and dead letters. Its number is never
-- used again, so nothing that is left names it: stubs go by their TTL, entries of the clock's
-- lists when their time comes.
--
-- KEYS  seq
-- ARGV  1 namespace  2 number  3 version of the end, or '' for the next (at home)
--       4 'empty' to refuse while it holds pending timers or dead letters
-- reply DONE now version | NONE now | FULL now pending dead
local name, num = ARGV[1], ARGV[2]
local pending = tonumber(call('HGET', K .. 'c:' .. num, 'pending') or '0')
local dead = call('ZCARD', K .. 'dead:' .. num)
local ver = tonumber(ARGV[3]) or (tonumber(call('HGET', K .. 'vers', name) or '0') + 1)
if call('HGET', K .. 'nn', name) ~= num then
  call('INCR', KEYS[1])
  return { 'NONE', digits(now) }
end
if ARGV[4] == 'empty' and pending + dead > 0 then
  call('INCR', KEYS[1])
  return { 'FULL', digits(now), digits(pending), dead }
end
local count = tonumber(call('HGET', K .. 'nl:' .. num, 'count') or '0')
for lane = 0, count + 2 do
  for _, class in ipairs({ 'f', 'r' }) do
    write('UNLINK', set_of(num, lane, class))
    write('ZREM', K .. 'lanes', lane_member(num, lane, class))
  end
end
for _, kind in ipairs({ 'n:', 'c:', 'r:', 'x:', 'p:', 'b:', 'nl:', 'dead:', 'dx:', 'di:', 'sl:' }) do
  write('UNLINK', K .. kind .. num)
end
write('UNLINK', K .. 'sd:' .. num .. ':F')
write('UNLINK', K .. 'sd:' .. num .. ':C')
write('HDEL', K .. 'nn', name)
write('ZREM', K .. 'names', name)
write('ZREM', K .. 'resume', num)
write('HSET', K .. 'vers', name, digits(ver))
flush()
return { 'DONE', digits(now), digits(ver) }
