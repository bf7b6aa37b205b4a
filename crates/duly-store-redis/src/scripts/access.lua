-- Reads the keys of callers, or what has changed in them. See access.rs.
--
-- KEYS  seq
-- ARGV  1 state that the caller knows, or ''
-- reply now, state of this shard or '' (there never was a key), 'same' | 'changes' | 'all', then record id, record or
--       '' (removed)
expect_marker()
local state = call('HGET', K .. 'marker', 'access') or ''
if state == ARGV[1] then return { now_text, state, 'same' } end
local log, known = call('LRANGE', K .. 'access_log', '0', '-1'), nil
for i = #log, 1, -1 do
  if match(log[i], '^[^%z]*') == ARGV[1] then
    known = i
    break
  end
end
if not known then
  local out = call('HGETALL', K .. 'access')
  table.insert(out, 1, 'all')
  table.insert(out, 1, state)
  table.insert(out, 1, now_text)
  return out
end
local out, told = { now_text, state, 'changes' }, {}
for i = known + 1, #log do
  local id = match(log[i], '^[^%z]*%z(.*)$')
  if id ~= '' and not told[id] then
    told[id] = true
    out[#out + 1] = id
    out[#out + 1] = call('HGET', K .. 'access', id) or ''
  end
end
return out
