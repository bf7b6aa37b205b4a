-- Returns timers that the clock has ended and that are not swept yet: leases past their end, firings past
-- `expire_after`. Entries of ended namespaces are dropped on the way.
--
-- KEYS  seq
-- ARGV  1 most to return  2 member id whose leases are wanted instead, or ''  3 '1' to release the member id here
-- reply now, then for each: namespace, id
local most, run = tonumber(ARGV[1]), ARGV[2]
local members
if run ~= '' then
  expect_marker()
  members = call('ZRANGE', K .. 'own:' .. run, 0, most - 1)
end
if ARGV[3] == '1' then
  write('HSET', K .. 'runs', run, 'gone')
  for _, lane in ipairs(call('SMEMBERS', K .. 'allots:' .. run)) do
    write('HDEL', K .. 'allot:' .. lane, run)
  end
  write('UNLINK', K .. 'allots:' .. run)
  -- A late call of the member id may still arrive, but not after a day.
  write('ZADD', K .. 'gone', digits(now), run)
  local day_ago = digits(now - 86400000)
  for _, old in ipairs(call('ZRANGEBYSCORE', K .. 'gone', '-inf', day_ago, 'LIMIT', 0, 100)) do
    write('HDEL', K .. 'runs', old)
    write('ZREM', K .. 'gone', old)
  end
end
if run == '' then
  members = call('ZRANGEBYSCORE', K .. 'leased', '-inf', digits(now), 'LIMIT', 0, most)
  for _, member in ipairs(call('ZRANGEBYSCORE', K .. 'exp', '-inf', '(' .. digits(now), 'LIMIT', 0, most)) do
    members[#members + 1] = member
  end
end
local out, names = { digits(now) }, {}
for _, member in ipairs(members) do
  local num, id = string.match(member, '^([^%z]*)%z(.*)$')
  if names[num] == nil then names[num] = call('HGET', K .. 'n:' .. num, 'name') end
  local lane = string.match(id, '^%z(%d+)$')
  if lane then
    -- The rest of an ended namespace.
    if unlink_blocks(set_of(num, lane, 'f')) then write('ZREM', K .. 'exp', member) end
  elseif not names[num] then
    write('ZREM', K .. 'leased', member)
    write('ZREM', K .. 'exp', member)
    if run ~= '' then write('ZREM', K .. 'own:' .. run, member) end
  else
    out[#out + 1] = names[num]
    out[#out + 1] = id
  end
end
flush()
return out
