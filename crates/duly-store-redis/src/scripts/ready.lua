-- Returns the lanes that have something claimable, page by page (P9).
--
-- KEYS  seq
-- ARGV  1 '1' to return OWED if leases or firings have ended  2 score of the cursor, or ''
--       3 member of the cursor  4 most entries to read
-- reply OWED now | OK now next cursor_score cursor_member rows full;
--       row: namespace, number, version, key (P, V or O and the origin), class, count
--       full: namespaces that stall because of their dead letters in this shard, with their numbers
if ARGV[1] == '1' and owed() then return { 'OWED', now_text } end
local lanes, most = K .. 'lanes', tonumber(ARGV[4])
local from = 0
if ARGV[2] ~= '' then from = seek(lanes, tonumber(ARGV[2]), ARGV[3]) end
local found = call('ZRANGE', lanes, from, from + most, 'WITHSCORES')
if not found[1] then expect_marker() end
local spaces, rows, full = {}, {}, {}
local score, last = '', ''
for i = 1, #found, 2 do
  if tonumber(found[i + 1]) > now then break end
  if i > most * 2 then
    score, last = found[i - 1], found[i - 2]
    break
  end
  local num, lane, class = match(found[i], '^([^%z]*)%z(%d+)%z(%a)$')
  local space = spaces[num]
  if space == nil then
    space = control(num) or false
    if space then space.full = call('ZCARD', K .. 'dead:' .. num) >= space.a_dead end
    if space and space.full and not space.paused then full[#full + 1] = { space.name, num } end
    spaces[num] = space
  end
  if space and not space.paused and not space.full then
    local count = lane_count(num, lane, class, now, 64)
    rows[#rows + 1] = { space.name, num, space.ver, lane_key(space, lane), class, count }
  end
end
local next_at = ahead()
return { 'OK', now_text, next_at and digits(next_at) or '', score, last, rows, full }
