-- Takes the membership over from nodes of an older build, once the last of them has left or was evicted. They store
-- members in a hash of shard 0. A value of another type makes their heartbeats fail, so none of them acts again, and
-- the new format refuses older nodes that start later.
--
-- KEYS  seq (of shard 0)
-- ARGV  for each older member to evict: member id, its heartbeat count
-- reply nothing (sealed), or for each older member: member id, heartbeat count, name
local key = K .. 'members'
if call('TYPE', key).ok == 'string' then return {} end
expect_marker()
local all, members, out = call('HGETALL', key), {}, {}
for i = 1, #all, 2 do members[all[i]] = all[i + 1] end
for i = 1, #ARGV, 2 do
  local member = members[ARGV[i]]
  if member and match(member, '^(%d+)') == ARGV[i + 1] then
    members[ARGV[i]] = nil
    write('HDEL', key, ARGV[i])
  end
end
for run, member in pairs(members) do
  out[#out + 1] = { run, match(member, '^(%d+)'), match(member, '^%d+%z%d%z%d+%z%d+%z%x*%z(.*)$') or '' }
end
if not out[1] then
  W = {}
  write('SET', key, 'sealed')
  add_features(K .. 'deployment', '')
end
flush()
return out
