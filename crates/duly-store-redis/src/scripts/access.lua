-- Reads the keys of callers, or what has changed in them. See access.rs.
--
-- KEYS  seq
-- ARGV  1 state that the caller knows, or ''
-- reply now, state of this shard or '' (there never was a key), 'same' | 'changes' | 'all', then state in the log or
--       '', record id or '', record or '' (removed)
expect_marker()
local state = call('HGET', K .. 'marker', 'access') or ''
if state == ARGV[1] then return { now_text, state, 'same' } end
local log, known = call('LRANGE', K .. 'access_log', '0', '-1'), nil
for i = #log, 1, -1 do
  local made, id = match(log[i], '^([^%z]*)%z(.*)$')
  if made == ARGV[1] then
    known = i
    break
  end
  -- All records were written at once: the log does not tell what that changed.
  if id == '' then break end
end
local out = { now_text, state, known and 'changes' or 'all' }
local function add(made, id, record)
  out[#out + 1], out[#out + 2], out[#out + 3] = made, id, record
end
for i = (known or 0) + 1, #log do
  local made, id = match(log[i], '^([^%z]*)%z(.*)$')
  if known then
    add(made, id, call('HGET', K .. 'access', id) or '')
  else
    add(made, '', '')
  end
end
if not known then
  local all = call('HGETALL', K .. 'access')
  for i = 1, #all, 2 do add('', all[i], all[i + 1]) end
end
return out
