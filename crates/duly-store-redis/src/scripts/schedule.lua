-- Schedules timers of one namespace whose ids are free (P1, P6, P10). Each schedule operation is decided alone; all of
-- them share the reads of the namespace and, key by key, the writes.
--
-- KEYS  seq
-- ARGV  1 namespace  2 number of schedule operations that the coordinator shard has granted of the rate; 'home' if this
--       is the coordinator shard; '' if it was not asked  3 number of schedule operations, then for each: id; ms, with
--       '+' in front if relative to now; record before its times, and after them
--       then for those with more: index; origin, or '' for the lane in the record; payload stored apart, or ''; bytes
--       of the payload; expire_after ms, or ''
-- reply now, then NONE (no such namespace), CLOSING (a deletion lock is held) or RATED (it has a rate: the caller asks the
--       coordinator shard), or a word for each:
--       CREATED | SLOW (the id is or was in use, or a limit is reached: the caller takes the slow path)
local name = ARGV[1]
local num = num_of(name)
local f = num and call('HMGET', K .. 'n:' .. num, 'gate', 'max_payload', 'max_delay', 'a_pending', 'm_pending', 'rate')
local word = not num and 'NONE' or f[1] and 'CLOSING' or f[6] and ARGV[2] == '' and 'RATED'
if word then return unchanged(now_text, word) end
local R, C = K .. 'r:' .. num, K .. 'c:' .. num
local max_payload, max_delay, a_pending = tonumber(f[2]), tonumber(f[3] or ''), allowance(f[4], f[5])
local rate = f[6] and ARGV[2] == 'home' and rate_of(num)
local granted = f[6] and (rate and rate_free(rate) or tonumber(ARGV[2]))
local pending = tonumber(call('HGET', C, 'pending') or '0')
local count, ids, more = tonumber(ARGV[3]), {}, {}
for k = 1, count do ids[k] = ARGV[k * 4] end
for i = 4 + count * 4, #ARGV, 5 do more[tonumber(ARGV[i])] = i end
local is_used = used_ids(num, ids)
local out = { digits(now) }
local created = time_bytes(now)
local records, payloads, expiries = { 'HSET', R }, { 'HSET', K .. 'p:' .. num }, { 'ZADD', K .. 'exp' }
local lanes, sets = {}, {}
local made, bytes = 0, 0
for k, id in ipairs(ids) do
  local text, head, extra = ARGV[k * 4 + 1], ARGV[k * 4 + 2], more[k]
  local due = tonumber(text)
  if byte(text) == 43 then
    due = now + due
    text = digits(due)
  end
  local number, s1, s2, s3, s4 = byte(head, 3, 7)
  local size = ((s1 * 256 + s2) * 256 + s3) * 256 + s4
  -- Without its length, the payload is at most as long as payload and headers together.
  local payload = extra and tonumber(ARGV[extra + 3]) or size
  local refused = is_used(k) or payload > max_payload or due > 7258118400000
    or (max_delay and due - now > max_delay) or (a_pending and pending >= a_pending)
    or (granted and made >= granted)
  if refused then
    out[k + 1] = 'SLOW'
  else
    out[k + 1] = 'CREATED'
    if extra then
      if ARGV[extra + 1] ~= '' then
        number = lane_of_origin(num, ARGV[extra + 1])
        head = sub(head, 1, 2) .. char(number) .. sub(head, 4)
      end
      if ARGV[extra + 2] ~= '' then
        payloads[#payloads + 1] = id
        payloads[#payloads + 1] = ARGV[extra + 2]
      end
      if ARGV[extra + 4] ~= '' then
        expiries[#expiries + 1] = digits(due + tonumber(ARGV[extra + 4]))
        expiries[#expiries + 1] = num .. NUL .. id
      end
    end
    made, pending, bytes = made + 1, pending + 1, bytes + 128 + #id + size
    records[made * 2 + 1] = id
    records[made * 2 + 2] = head .. created .. time_bytes(due) .. ARGV[k * 4 + 3]
    if not lanes[number] or due < lanes[number] then lanes[number] = due end
    local set = sets[number] or set_of(num, number, 'f')
    sets[number] = set
    block_add(set, due, id, text)
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
for _, several in ipairs({ payloads, expiries }) do
  if #several > 2 then W[#W + 1] = several end
end
if made > 0 then
  write_fields(records, call('HLEN', R))
  write('HINCRBY', C, 'pending', made)
  write('HINCRBY', C, 'scheduled', made)
  write('HINCRBY', C, 'bytes', bytes)
  if rate then rate_take(rate, made) end
end
flush()
return out
