-- Ends a namespace in this shard, with all its timers, tombstones and dead letters. Its number is never used again, so
-- the rest is unreachable: entries of the clock's sets are dropped when their time comes, and later sweeps remove
-- the blocks of a large lane.
--
-- KEYS  seq
-- ARGV  1 namespace  2 number  3 version of the end, or '' for the next one (at the coordinator shard)
--       4 condition: 'empty': refuses while the namespace holds pending timers or dead letters. At the coordinator
--         shard also 'idle': refuses unless the namespace is implicit, idle, and holds no tombstone either; 'done': the
--         other shards have ended it; 'lost': records the end although this shard does not have the namespace (an
--         operator gives up what other shards hold under this number)
--       5 id of the deletion lock that must be held (deletion_lock.lua), or ''
-- reply DONE now version | NONE now | FULL now pending dead | AGAIN now (the lock is not held, or the namespace is used)
expect_marker()
local name, num = ARGV[1], ARGV[2]
-- The coordinator shard keeps an end record of each number, until a day after every shard has confirmed the end. Only an
-- end record allows a shard to remove what it holds under a number (ending.rs).
local day_ago = digits(now - 86400000)
if ARGV[4] == 'done' then
  write('ZREM', K .. 'todo', 'gone' .. NUL .. name .. NUL .. num .. NUL .. ARGV[3])
  if call('HEXISTS', K .. 'ends', num) == 1 then write('ZADD', K .. 'ended', digits(now), num) end
  flush()
  return { 'DONE', digits(now), ARGV[3] }
end
local pending = tonumber(call('HGET', K .. 'c:' .. num, 'pending') or '0')
local dead = call('ZCARD', K .. 'dead:' .. num)
local taken = tonumber(call('HGET', K .. 'vers', name) or '0')
local ver = tonumber(ARGV[3]) or taken + 1
-- An older version that arrives later does not revive the namespace.
if ver > taken then write('HSET', K .. 'vers', name, digits(ver)) end
-- The version of an unused name is kept for a day; no message takes longer.
for _, old in ipairs(call('ZRANGEBYSCORE', K .. 'over', '-inf', day_ago, 'LIMIT', 0, 100)) do
  if old ~= name and call('HEXISTS', K .. 'nn', old) == 0 then write('HDEL', K .. 'vers', old) end
  write('ZREM', K .. 'over', old)
end
write('ZADD', K .. 'over', digits(now), name)
local here = call('HGET', K .. 'nn', name) == num
if not here and ARGV[4] ~= 'lost' then
  if ARGV[3] == '' then W = {} end
  flush()
  return { 'NONE', digits(now) }
end
local condition = ARGV[4]
local is_unlocked = (ARGV[5] or '') ~= '' and match(call('HGET', K .. 'n:' .. num, 'gate') or '', '%x+$') ~= ARGV[5]
local is_used = condition == 'idle'
  and not (is_implicit(num) and call('HGET', K .. 'n:' .. num, 'idle') and is_vacant(num))
if is_unlocked or is_used then return unchanged('AGAIN', now_text) end
if condition == 'empty' and pending + dead > 0 then return unchanged('FULL', now_text, digits(pending), dead) end
if ARGV[3] == '' then
  -- If a shard has not confirmed the end, the record stays, and is checked again a day later.
  for _, old in ipairs(call('ZRANGEBYSCORE', K .. 'ended', '-inf', day_ago, 'LIMIT', 0, 100)) do
    local ended_ver, ended_name = match(call('HGET', K .. 'ends', old) or '', '^(%d+)%z(.*)$')
    local half_done = ended_ver and 'gone' .. NUL .. ended_name .. NUL .. old .. NUL .. ended_ver
    if half_done and call('ZSCORE', K .. 'todo', half_done) then
      write('ZADD', K .. 'ended', digits(now), old)
    else
      write('HDEL', K .. 'ends', old)
      write('ZREM', K .. 'ended', old)
    end
  end
  write('HSET', K .. 'ends', num, digits(ver) .. NUL .. name)
  write('ZADD', K .. 'ended', digits(now), num)
  -- Any node that finds this entry at the coordinator shard finishes an unfinished end.
  write('ZADD', K .. 'todo', 0, 'gone' .. NUL .. name .. NUL .. num .. NUL .. digits(ver))
end
if not here then
  flush()
  return { 'DONE', digits(now), digits(ver) }
end
local count = tonumber(call('HGET', K .. 'nl:' .. num, 'count') or '0')
for lane = 0, count + 2 do
  for _, class in ipairs({ 'f', 'r' }) do write('ZREM', K .. 'lanes', lane_member(num, lane, class)) end
  write('UNLINK', set_of(num, lane, 'r'))
  -- A lane with more blocks than one script removes is removed by later sweeps, as an entry whose time has come.
  if not unlink_blocks(set_of(num, lane, 'f')) then
    write('ZADD', K .. 'exp', 0, num .. NUL .. NUL .. lane)
  end
end
local keys = { 'n:%s', 'c:%s', 'r:%s', 'x:%s', 'p:%s', 'b:%s', 'nl:%s', 'dead:%s', 'dx:%s', 'di:%s', 's:%s', 'sl:%s',
  'bx:%s', 'sd:%s:F', 'sd:%s:C', 'ix:%s:l', 'ix:%s:s', 'q:%s:pending', 'q:%s:dead' }
for _, key in ipairs(keys) do write('UNLINK', K .. format(key, num)) end
write('HDEL', K .. 'nn', name)
write('ZREM', K .. 'names', name)
write('ZREM', K .. 'implicit', name)
write('ZREM', K .. 'resume', num)
write('ZREM', K .. 'todo', 'put' .. NUL .. name)
flush()
return { 'DONE', digits(now), digits(ver) }
