-- Makes a set for lists, step by step, or keeps one that was made.
--
-- What is leased and what has ended is found by id; in order of due times only while somebody lists
-- it, as that costs every firing an insert and a removal more. `ix:<num>:<what>` is there while a set is
-- made or has been, and writers keep the set up to date as long: so all that a scan of the hash
-- passes over because it comes later is there already. It goes before the set does.
--
-- KEYS  seq
-- ARGV  1 namespace  2 'l': bx:<num>, leased first attempts; 's': sd:<num>:F and :C, tombstones
--       3 about how many to look at
-- reply now, then NONE (no such namespace) | MORE (call again) | DONE
local num, what = num_of(ARGV[1]), ARGV[2]
if not num then
  touch_seq()
  return { digits(now), 'NONE' }
end
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
