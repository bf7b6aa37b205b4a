-- Sums up a page of namespaces, or a page of lanes with something due.
--
-- KEYS  seq
-- ARGV  1 '1' to return OWED if leases or firings have ended  2 'names' or 'lanes'
--       3 name or rank to begin after  4 most
-- reply OWED now | OK now next ('' at the end), then
--       names: pending in_flight dead paused dead_full todo (an unfinished change of a namespace at its
--       coordinator shard, or '') digest (of the page's names and numbers)  list of coordinator shards of the members
--       and the one before it, progress, state of the keys of callers
--       lanes: due oldest
if ARGV[1] == '1' and owed() then return { 'OWED', digits(now) } end
local most = tonumber(ARGV[4])
if ARGV[2] == 'lanes' then
  local from = tonumber(ARGV[3]) or 0
  local found = call('ZRANGE', K .. 'lanes', from, from + most - 1, 'WITHSCORES')
  local due, oldest, after = 0, '', ''
  for i = 1, #found, 2 do
    if tonumber(found[i + 1]) > now then break end
    local num, lane, class = string.match(found[i], '^([^%z]*)%z(%d+)%z(%a)$')
    due = due + lane_count(num, lane, class, now)
    if oldest == '' then oldest = found[i + 1] end
    if i == 2 * most - 1 then after = digits(from + most) end
  end
  return { 'OK', digits(now), after, due, oldest }
end
local pending, leased, dead, paused, full, after, digest = 0, 0, 0, 0, 0, '', 0
local names = names_after('names', ARGV[3], most)
if not names[1] and ARGV[3] == '' then expect_marker() end
for i, name in ipairs(names) do
  local num = call('HGET', K .. 'nn', name)
  local ctl = control(num)
  local counts = call('HMGET', K .. 'c:' .. num, 'pending', 'leased')
  local letters = call('ZCARD', K .. 'dead:' .. num)
  pending = pending + tonumber(counts[1] or '0')
  leased = leased + tonumber(counts[2] or '0')
  dead = dead + letters
  if ctl.paused then paused = paused + 1 end
  if letters >= ctl.a_dead then full = full + 1 end
  -- The digest has 44 bits, so the sum over a page is exact.
  digest = digest + tonumber(sub(redis.sha1hex(name .. NUL .. num), 1, 11), 16)
  if i == most then after = name end
end
-- A random one, so that a change that cannot be finished now does not delay the others.
local todo = call('ZRANDMEMBER', K .. 'todo') or ''
local marker = call('HMGET', K .. 'marker', 'list', 'prev', 'progress', 'access')
return { 'OK', digits(now), after, pending, leased, dead, paused, full, todo, digits(digest),
  marker[1] or '', marker[2] or '', marker[3] or '0', marker[4] or '' }
