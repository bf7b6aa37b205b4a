-- Reads everything that is known of one id.
--
-- KEYS  seq
-- ARGV  1 namespace, or '#' and its number  2 id, or ''  3 delivery id of the wanted dead letter, or ''
--       4 most bytes of a payload stored apart to read; 0: none  5 number:version of the settings that the caller knows
--       6 key of a firing whose dead letter is wanted too, or ''
-- reply now, then nothing if there is no such namespace, else: name, number, version, settings
--       (or ''), paused, resumes at, created at, updated at, dead letters, record, payload, lease, tombstone,
--       entry, record and payload of the dead letter, record of 6, id,
--       time (or ''): tombstones of timers that ended by then are over
local id = ARGV[2]
local num = match(ARGV[1], '^#(.*)$') or num_of(ARGV[1])
local f = num and call('HMGET', K .. 'n:' .. num, 'ver', 'settings', 'paused', 'resumes', 'created', 'updated', 'name',
  'over')
if not num or not f[1] then
  expect_marker()
  return { digits(now) }
end
local settings = ''
if ARGV[5] ~= num .. ':' .. f[1] then settings = f[2] end
local R, P = K .. 'r:' .. num, K .. 'p:' .. num

local entry, fk = '', nil
if ARGV[3] ~= '' then
  local found = call('HGET', K .. 'dx:' .. num, ARGV[3])
  if found then
    fk = string.sub(found, 17)
    id = string.match(fk, '^([^%z]*)')
    entry = id .. NUL .. string.sub(found, 1, 16) .. string.sub(fk, #id + 1)
  end
else
  entry = call('ZREVRANGEBYLEX', K .. 'di:' .. num, '[' .. id .. NUL .. string.char(255), '[' .. id .. NUL,
    'LIMIT', 0, 1)[1] or ''
  if entry ~= '' then fk = id .. string.sub(entry, #id + 1 + 17) end
end
local function payload_of(key, record)
  local most = tonumber(ARGV[4])
  if most == 0 or record == '' or not lies_apart(record) then return '' end
  -- The first eight bytes are its version.
  if call('HSTRLEN', P, key) > most + 8 then return '' end
  return call('HGET', P, key) or ''
end
local record, hold, tombstone = '', '', ''
if id ~= '' then
  record = call('HGET', R, id) or ''
  hold = call('HGET', K .. 'x:' .. num, id) or ''
  tombstone = call('HGET', K .. 's:' .. num, id) or ''
end
local letter = fk and call('HGET', R, fk) or ''
local other = ARGV[6] ~= '' and call('HGET', R, ARGV[6]) or ''
return { digits(now), f[7], num, f[1], settings, f[3] or '0', f[4] or '', f[5], f[6],
  call('ZCARD', K .. 'dead:' .. num), record, payload_of(id, record), hold, tombstone,
  entry, letter, fk and payload_of(fk, letter) or '', other, id, f[8] or '' }
