-- Schedules a timer whose id is free (P1, P6, P10).
--
-- KEYS  seq
-- ARGV  1 namespace  2 id  3 'at' or 'after'  4 ms  5 record  6 origin, or '' for the lane in the
--       record  7 payload kept apart, or ''  8 bytes of the payload  9 expire_after ms, or ''
-- reply CREATED now | NONE (no such namespace) | SLOW (something has or had this id) |
--       CLOSING | PAYLOAD | FAR | DELAY | PENDING | RATE now wait_ms
local name, id, record = ARGV[1], ARGV[2], ARGV[5]
local num = call('HGET', K .. 'nn', name)
if not num then return { 'NONE', digits(now) } end
local ctl = control(num)
if ctl.closing then return { 'CLOSING', digits(now) } end
if call('HEXISTS', K .. 'r:' .. num, id) == 1
    or call('EXISTS', K .. 's:' .. num .. ':' .. id) == 1
    or #call('ZRANGEBYLEX', K .. 'di:' .. num, '[' .. id .. NUL, '[' .. id .. NUL .. string.char(255), 'LIMIT', 0, 1) > 0
then
  call('INCR', KEYS[1])
  return { 'SLOW', digits(now) }
end

local limits = call('HMGET', K .. 'n:' .. num, 'max_payload', 'max_delay')
local due = tonumber(ARGV[4])
if ARGV[3] == 'after' then due = now + due end
local too_far = due > 7258118400000
local refused
if tonumber(ARGV[8]) > tonumber(limits[1]) then
  refused = { 'PAYLOAD', digits(now) }
elseif limits[2] and too_far then
  refused = { 'FAR', digits(now) }
elseif limits[2] and due - now > tonumber(limits[2]) then
  refused = { 'DELAY', digits(now) }
else
  refused = admit_one_more(ctl)
  if not refused and too_far then refused = { 'FAR', digits(now) } end
  if not refused then refused = admit_schedule(ctl) end
end
if refused then
  call('INCR', KEYS[1])
  return refused
end

local lane = lane_of(record)
if ARGV[6] ~= '' then lane = lane_of_origin(num, ARGV[6]) end
record = string.sub(record, 1, 2) .. string.char(lane) .. string.sub(record, 4, 9)
  .. be(now, 6) .. be(due, 6) .. string.sub(record, 22)

local first = ahead()
local head = rehead(num, lane, 'f', nil, due)
write('HSET', K .. 'r:' .. num, id, record)
write('ZADD', set_of(num, lane, 'f'), digits(due), id)
if ARGV[7] ~= '' then write('HSET', K .. 'p:' .. num, id, ARGV[7]) end
if ARGV[9] ~= '' then write('ZADD', K .. 'exp', digits(due + tonumber(ARGV[9])), num .. NUL .. id) end
write('HINCRBY', K .. 'c:' .. num, 'pending', 1)
write('HINCRBY', K .. 'c:' .. num, 'scheduled', 1)
write('HINCRBY', K .. 'c:' .. num, 'bytes', cost_of(id, record))
wake_for(due, head, first)
flush()
return { 'CREATED', digits(now) }
