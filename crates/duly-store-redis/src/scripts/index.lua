-- Makes a set for lists, step by step, or keeps one that was made.
--
-- Leased and ended timers are stored by id. Sets in order of due times exist only while a caller lists them, because
-- they cost an insert and a removal for each firing.
--
-- 1. `ix:<num>:<what>` exists while a set is being made or has been made. As long as it exists, writers keep the set
--    up to date. So timers that the scan of the hash misses, because they came later, are in the set already.
-- 2. `ix:<num>:<what>` expires before the set does.
--
-- KEYS  seq
-- ARGV  1 namespace  2 'l': bx:<num>, leased first attempts; 's': sd:<num>:F and :C, tombstones
--       3 about how many timers to read
-- reply now, then NONE (no such namespace) | MORE (call again) | DONE
local num, what = num_of(ARGV[1]), ARGV[2]
if not num then return unchanged(now_text, 'NONE') end
local state, source, sets = K .. 'ix:' .. num .. ':' .. what, K .. 's:' .. num, {}
if what == 'l' then
  source, sets.l = K .. 'x:' .. num, K .. 'bx:' .. num
else
  sets.F, sets.C = K .. 'sd:' .. num .. ':F', K .. 'sd:' .. num .. ':C'
end
local cursor = call('GET', state)
if not cursor then
  cursor = '0'
  for _, set in pairs(sets) do write('UNLINK', set) end
end
if cursor ~= 'done' then
  local found = call('HSCAN', source, cursor, 'COUNT', ARGV[3])
  cursor = found[1] == '0' and 'done' or found[1]
  local rows, ids = found[2], {}
  for i = 1, #rows, 2 do ids[#ids + 1] = rows[i] end
  if what == 'l' and ids[1] then
    for i, record in ipairs(call('HMGET', K .. 'r:' .. num, unpack(ids))) do
      if not is_retry(record) then gather('ZADD', sets.l, digits(due_of(record)), ids[i]) end
    end
  else
    for i = 1, #rows, 2 do
      local tombstone = rows[i + 1]
      gather('ZADD', sets[sub(tombstone, 1, 1)], digits(due_of_tombstone(tombstone)), rows[i])
    end
  end
end
write('SET', state, cursor, 'PX', 60000)
for _, set in pairs(sets) do write('PEXPIRE', set, 120000) end
flush()
return { digits(now), cursor == 'done' and 'DONE' or 'MORE' }
