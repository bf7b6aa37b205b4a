-- Reads the record of the deployment, in shard 0. Also claims the creation of a deployment or the adoption of one of an
-- older build, and notes that every shard has its marker. See open.rs.
--
-- KEYS  seq (of shard 0)
-- ARGV  1 'read' | 'claim' | 'complete'  2 deployment id  3 format  4 shards  5 name
--       6 first list of coordinator shards of the members: the claim decides it, so every marker begins with the same one
-- reply nothing (there is no record) | format, shards, name, deployment id or '' (of an older build),
--       first list, '1' if every shard has its marker, features
local key = K .. 'deployment'
local f = call('HMGET', key, 'format', 'shards', 'name', 'id', 'list', 'state', 'features')
if ARGV[1] == 'claim' and not f[1] then
  f = { ARGV[3], ARGV[4], ARGV[5], ARGV[2], ARGV[6], 'creating' }
  write('HSET', key, 'format', f[1], 'shards', f[2], 'name', f[3], 'id', f[4], 'list', f[5], 'state', f[6])
  -- A node of an older build stores members under this key, and fails on this value (seal.lua).
  write('SET', K .. 'members', 'sealed')
elseif ARGV[1] == 'claim' and not f[4] then
  f[4], f[5], f[6] = ARGV[2], ARGV[6], 'creating'
  write('HSET', key, 'id', f[4], 'list', f[5], 'state', f[6])
elseif ARGV[1] == 'complete' and f[4] == ARGV[2] then
  f[6] = 'complete'
  write('HSET', key, 'state', f[6])
end
if #W > 0 then flush() end
if not f[1] then return {} end
return { f[1], f[2], f[3], f[4] or '', f[5] or '', f[6] == 'complete' and '1' or '0', f[7] or '' }
