#!lua flags=allow-oom
-- The heartbeat of a node of format 4, with the parts of its base that it needs: older nodes send it.
local call = redis.call
local K = string.sub(KEYS[1], 1, -4)
local NUL = string.char(0)
local W = {}
local function write(...)
  W[#W + 1] = {...}
end
local function flush()
  if #W == 0 then call('INCR', KEYS[1]) end
  for _, command in ipairs(W) do
    call(unpack(command))
  end
end
local function digits(n)
  return string.format('%d', n)
end
local key, run, presence = K .. 'members', ARGV[1], ARGV[2]
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
