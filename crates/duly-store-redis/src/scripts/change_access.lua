-- Writes keys of callers, unless another change came first. See access.rs.
--
-- KEYS  seq
-- ARGV  1 'changes' | 'all' (instead of what is there)  2 state that this shard must have, or ''  3 next state
--       4 feature that builds must know from now on  then state for the log or '', record id or '', record or ''
--       (removed)
-- reply 'DONE' | 'OTHER', state of this shard
expect_marker()
local marker, records, log = K .. 'marker', K .. 'access', K .. 'access_log'
-- Changes that are remembered, for callers that know an older state.
local LOGGED = 1000
local state = call('HGET', marker, 'access') or ''
if state ~= ARGV[2] then return unchanged('OTHER', state) end
local has_deployment = call('EXISTS', K .. 'deployment') == 1
if ARGV[1] == 'all' then write('DEL', records, log) end
for i = 5, #ARGV, 3 do
  local made, id, record = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if id ~= '' and record == '' then write('HDEL', records, id) end
  if id ~= '' and record ~= '' then write('HSET', records, id, record) end
  if made ~= '' then write('RPUSH', log, made .. NUL .. id) end
end
write('LTRIM', log, digits(-LOGGED), '-1')
write('HSET', marker, 'access', ARGV[3])
add_features(marker, ARGV[4])
if has_deployment then add_features(K .. 'deployment', ARGV[4]) end
flush()
return { 'DONE' }
