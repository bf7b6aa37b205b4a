-- A member says that it is alive and which others are not, and hears who is there. No clock is asked:
-- a member that is said to be dead ends only if it has not beaten since.
--
-- KEYS  seq (of shard 0)
-- ARGV  1 run  2 'joining', 'here', 'leaving' or 'left'  3 oldest 4 newest protocol  5 name
--       6 what it waits for
--       then for each dead member: run, its count of beats
-- reply 'OVER' (the run is no member) | 'MEMBERS', then for each: run, beats, '1' when it leaves,
--       oldest and newest protocol, name, what it waits for
expect_marker()
local key, run, presence = K .. 'heartbeats', ARGV[1], ARGV[2]
local members = {}
local all = call('HGETALL', key)
for i = 1, #all, 2 do members[all[i]] = all[i + 1] end
-- Beats and the rest, with NUL between.
local function beats_of(member)
  return string.match(member, '^(%d+)')
end
for i = 7, #ARGV, 2 do
  local member = members[ARGV[i]]
  if member and beats_of(member) == ARGV[i + 1] then
    members[ARGV[i]] = nil
    write('HDEL', key, ARGV[i])
  end
end
if presence == 'left' then
  members[run] = nil
  write('HDEL', key, run)
elseif not members[run] and presence ~= 'joining' then
  flush()
  return { 'OVER' }
else
  local beats = tonumber(members[run] and beats_of(members[run]) or '0') + 1
  local leaves = presence == 'leaving' and '1' or '0'
  members[run] = table.concat({ digits(beats), leaves, ARGV[3], ARGV[4], ARGV[6], ARGV[5] }, NUL)
  write('HSET', key, run, members[run])
end
flush()
local out = { 'MEMBERS' }
for other, member in pairs(members) do
  local beats, leaves, oldest, newest, waits, name =
    string.match(member, '^(%d+)%z(%d)%z(%d+)%z(%d+)%z(%x*)%z(.*)$')
  out[#out + 1] = { other, beats, leaves, oldest, newest, name, waits }
end
return out
