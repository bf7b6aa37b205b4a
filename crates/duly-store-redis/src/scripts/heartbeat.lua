-- Records a heartbeat at a coordinator shard of the members; deployment/heartbeat.rs of duly-store has the rules.
-- No clock decides which node is alive: a member that the caller reports as dead is evicted only if its last heartbeat
-- is still the one that the caller has seen.
--
-- Keys: `heartbeats` (hash, member id -> last heartbeat), `evicted` (sorted set, time -> member id), `marker` (hash;
-- its field `list` begins with the version of the list that this shard accepts, and a colon).
--
-- KEYS  seq
-- ARGV  1 member id  2 'joining', 'here', 'leaving' or 'left'  3 oldest 4 newest protocol  5 name
--       6 namespaces that it waits for  7 version of the list  8 number of the heartbeat
--       then for each member that is reported as dead: member id, number of its last heartbeat or '' (not listed)
-- reply 'SUPERSEDED', the list that this shard has, and the one before it | 'EVICTED' (this member id was evicted)
--       | 'MEMBERS', list of the member ids evicted lately, then for each member: member id, number of its last
--       heartbeat, '0' here '1' leaving '2' joining, oldest and newest protocol, name, namespaces that it waits for
expect_marker()
local key, evictions, run, presence = K .. 'heartbeats', K .. 'evicted', ARGV[1], ARGV[2]
-- Most evictions in a reply; the newest are returned.
local TOLD_MAX = 1000
local lists = call('HMGET', K .. 'marker', 'list', 'prev')
if match(lists[1], '^(%d+):') ~= ARGV[7] then
  return { 'SUPERSEDED', lists[1], lists[2] or '' }
end
if call('ZSCORE', evictions, run) then
  return { 'EVICTED' }
end
local members, evicted = {}, {}
local all = call('HGETALL', key)
for i = 1, #all, 2 do members[all[i]] = all[i + 1] end
local lately = call('ZRANGE', evictions, '+inf', digits(now - 60000), 'BYSCORE', 'REV', 'LIMIT', '0', digits(TOLD_MAX))
for _, other in ipairs(lately) do evicted[other] = true end
local old = call('ZRANGE', evictions, '-inf', digits(now - 86400000), 'BYSCORE', 'LIMIT', '0', '100')
if #old > 0 then write('ZREM', evictions, unpack(old)) end
-- Returns the number of a heartbeat, which is in front of the first NUL.
local function number_of(member)
  return match(member, '^(%d+)')
end
local function evict(other)
  members[other] = nil
  evicted[other] = true
  write('HDEL', key, other)
  write('ZADD', evictions, now_text, other)
end
for i = 9, #ARGV, 2 do
  local member = members[ARGV[i]]
  if (member and number_of(member) or '') == ARGV[i + 1] then evict(ARGV[i]) end
end
if presence == 'left' then
  evict(run)
elseif not members[run] or tonumber(number_of(members[run])) < tonumber(ARGV[8]) then
  local stage = presence == 'here' and '0' or presence == 'leaving' and '1' or '2'
  members[run] = table.concat({ ARGV[8], stage, ARGV[3], ARGV[4], ARGV[6], ARGV[5] }, NUL)
  write('HSET', key, run, members[run])
end
flush()
local runs = {}
for other in pairs(evicted) do runs[#runs + 1] = other end
local out = { 'MEMBERS', runs }
for other, member in pairs(members) do
  local number, stage, oldest, newest, waits, name =
    match(member, '^(%d+)%z(%d)%z(%d+)%z(%d+)%z(%x*)%z(.*)$')
  out[#out + 1] = { other, number, stage, oldest, newest, name, waits }
end
return out
