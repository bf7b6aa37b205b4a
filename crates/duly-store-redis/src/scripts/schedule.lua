-- Schedules timers of one namespace whose ids are free (P1, P6, P10). Each stands for itself; all of
-- them share the looks at the namespace and, key by key, the writes.
--
-- KEYS  seq
-- ARGV  1 namespace  2 schedules that its home has granted of its rate; 'home' when this is the home; ''
--       when nobody has asked  then for each: id; 'at' or 'after'; ms; record before its times, and after them;
--       origin, or '' for the lane in the record; payload kept apart, or ''; bytes of the payload;
--       expire_after ms, or ''
-- reply now, then NONE (no such namespace), CLOSING or RATED (it has a rate: ask its home), or a word
--       for each:
--       CREATED | SLOW (something has or had this id, or it is past a limit: look again)
local name = ARGV[1]
local num = call('HGET', K .. 'nn', name)
local f = num and call('HMGET', K .. 'n:' .. num, 'gate', 'max_payload', 'max_delay', 'a_pending', 'm_pending', 'rate_us')
local word = not num and 'NONE' or f[1] and 'CLOSING' or f[6] and ARGV[2] == '' and 'RATED'
if word then
  call('INCR', KEYS[1])
  return { digits(now), word }
end
local R, C = K .. 'r:' .. num, K .. 'c:' .. num
local max_payload, max_delay, a_pending = tonumber(f[2]), tonumber(f[3] or ''), allowance(f[4], f[5])
local rate = f[6] and ARGV[2] == 'home' and rate_of(num)
local granted = f[6] and (rate and rate_free(rate) or tonumber(ARGV[2]))
local pending = tonumber(call('HGET', C, 'pending') or '0')
local ids = {}
for i = 3, #ARGV, 9 do ids[#ids + 1] = ARGV[i] end
local there = call('HMGET', R, unpack(ids))

-- What was used before, as far as anything is left of that.
local stubs = call('HMGET', K .. 's:' .. num, unpack(ids))
local letters = call('EXISTS', K .. 'di:' .. num) == 1
local function was_used(k, id)
  return stubs[k] or (letters and
    #call('ZRANGEBYLEX', K .. 'di:' .. num, '[' .. id .. NUL, '[' .. id .. NUL .. char(255), 'LIMIT', 0, 1) > 0)
end
local out = { digits(now) }
local created = time_bytes(now)
local records, payloads, expiries, lanes = { 'HSET', R }, { 'HSET', K .. 'p:' .. num }, { 'ZADD', K .. 'exp' }, {}
local made, bytes = 0, 0
for k, id in ipairs(ids) do
  local i = 3 + (k - 1) * 9
  local due = tonumber(ARGV[i + 2])
  if ARGV[i + 1] == 'after' then due = now + due end
  local refused = there[k] or tonumber(ARGV[i + 7]) > max_payload or due > 7258118400000
    or (max_delay and due - now > max_delay) or (a_pending and pending >= a_pending) or was_used(k, id)
    or (granted and made >= granted)
  if refused then
    out[k + 1] = 'SLOW'
  else
    out[k + 1] = 'CREATED'
    local head = ARGV[i + 3]
    local number = lane_of(head)
    if ARGV[i + 5] ~= '' then
      number = lane_of_origin(num, ARGV[i + 5])
      head = sub(head, 1, 2) .. char(number) .. sub(head, 4)
    end
    made, pending, bytes = made + 1, pending + 1, bytes + cost_of(id, head)
    records[made * 2 + 1] = id
    records[made * 2 + 2] = head .. created .. time_bytes(due) .. ARGV[i + 4]
    if not lanes[number] or due < lanes[number] then lanes[number] = due end
    lane_add(num, number, 'f', due, id)
    if ARGV[i + 6] ~= '' then
      payloads[#payloads + 1] = id
      payloads[#payloads + 1] = ARGV[i + 6]
    end
    if ARGV[i + 8] ~= '' then
      expiries[#expiries + 1] = due + tonumber(ARGV[i + 8])
      expiries[#expiries + 1] = num .. NUL .. id
    end
  end
end
for number, due in pairs(lanes) do
  local first = lane_front(num, number, 'f', 1)[1]
  local head = first and first[2]
  if not head or due < head then
    write('ZADD', K .. 'lanes', digits(due), lane_member(num, number, 'f'))
    wake_for(due, head, ahead())
  end
end
for _, several in ipairs({ records, payloads, expiries }) do
  if #several > 2 then W[#W + 1] = several end
end
if made > 0 then
  write('HINCRBY', C, 'pending', made)
  write('HINCRBY', C, 'scheduled', made)
  write('HINCRBY', C, 'bytes', bytes)
  if rate then rate_take(rate, made) end
end
flush()
return out
