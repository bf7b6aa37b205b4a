-- Writes the marker of a shard, unless it has one.
--
-- KEYS  seq
-- ARGV  1 deployment id  2 shards  3 features  4 name  5 list of coordinator shards of the members  6 the list before it,
--       or ''  7 '1' to confirm a rollback: the shard takes calls again
--       8 '1' to restore the record of the deployment, in shard 0  9 '1' if no node of an older build can
--       act any more
-- reply OK | FOREIGN id (the shard belongs to another deployment)
local key, id = K .. 'marker', ARGV[1]
local found = call('HGET', key, 'id')
if found and found ~= id then return { 'FOREIGN', found } end
if not found then
  write('HSET', key, 'id', id, 'shards', ARGV[2], 'name', ARGV[4], 'list', ARGV[5], 'prev', ARGV[6],
    'progress', now_text)
  add_features(key, ARGV[3])
end
if ARGV[7] == '1' then write('HDEL', key, 'held') end
if ARGV[9] == '1' then write('HSET', key, 'sealed', '1') end
if ARGV[8] == '1' then
  add_features(K .. 'deployment', ARGV[3])
  write('HSET', K .. 'deployment', 'shards', ARGV[2], 'name', ARGV[4], 'id', id, 'state', 'complete')
  write('SET', K .. 'members', 'sealed')
end
if #W > 0 then
  -- Makes every node read the marker again.
  write('SPUBLISH', K .. 'wake', NUL)
  flush()
end
return { 'OK' }
