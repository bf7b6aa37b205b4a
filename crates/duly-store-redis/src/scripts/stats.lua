-- Returns the counts of a namespace.
--
-- KEYS  seq
-- ARGV  1 '1' to return OWED or TRIM if something has ended and is not swept  2 namespace
-- reply OWED now | TRIM now | NONE now |
--       OK now, '1' if paused, next, oldest due, dead, retained, counts, lanes
--       counts: pending leased bytes scheduled fired delivered failed cancelled rescheduled dead
--       lane: key, due, later, retries due, retries, in flight
if ARGV[1] == '1' and owed() then return { 'OWED', digits(now) } end
local num = num_of(ARGV[2])
local ctl = num and control(num)
if not ctl then return { 'NONE', digits(now) } end
if ARGV[1] == '1' then
  local first = call('LINDEX', K .. 'sl:' .. num, 0)
  local tombstone = first and call('HGET', K .. 's:' .. num, sub(first, 7)) or ''
  if first and (tombstone_is_over(ctl, tombstone) or sub(tombstone, 2, 7) ~= sub(first, 1, 6)) then
    return { 'TRIM', digits(now) }
  end
end
local counts = call('HMGET', K .. 'c:' .. num, 'pending', 'leased', 'bytes', 'scheduled', 'fired',
  'delivered', 'failed', 'cancelled', 'rescheduled', 'dead')
for i = 1, 10 do counts[i] = counts[i] or '0' end
local next_at, oldest
local lanes = {}
local keys = call('HMGET', K .. 'nl:' .. num, 'count')
for lane = 0, tonumber(keys[1] or '0') + 2 do
  local due, all = lane_count(num, lane, 'f', now), lane_count(num, lane, 'f')
  local retry_due, retries = lane_count(num, lane, 'r', now), lane_count(num, lane, 'r')
  local in_flight = tonumber(call('HGET', K .. 'c:' .. num, 'i' .. lane) or '0')
  if due > 0 then
    local head = lane_front(num, lane, 'f', 1)[1][2]
    if not oldest or head < oldest then oldest = head end
  end
  for _, class in ipairs({ 'f', 'r' }) do
    local at = lane_after(num, lane, class, now)
    if at and (not next_at or at < next_at) then next_at = at end
  end
  if all + retries + in_flight > 0 then
    lanes[#lanes + 1] = { lane_key(ctl, lane), due, all - due, retry_due, retries, in_flight }
  end
end
return { 'OK', digits(now), ctl.paused and '1' or '0', next_at and digits(next_at) or '',
  oldest and digits(oldest) or '', call('ZCARD', K .. 'dead:' .. num), call('HLEN', K .. 's:' .. num),
  counts, lanes }
