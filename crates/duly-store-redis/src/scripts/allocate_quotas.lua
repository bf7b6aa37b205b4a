-- Allocates a limit again after it was lowered (allocation.rs). The coordinator shard settles once what each shard
-- gets, and each shard takes its part once.
--
-- KEYS  seq
-- ARGV  1 namespace  2 number  3 'pending' or 'dead'  4 version that names the allocation
--       5 version of the settings, at the coordinator shard: settles 6 for all shards, unless that was done; or '':
--         takes 6
--       6 what each shard gets beyond its even split, or what this shard gets
-- reply OTHER now (something has changed: the caller reads again) | DONE now what_is_settled
local num, kind, ver = ARGV[2], ARGV[3], ARGV[5]
local q = quota_of(num, kind)
local here = num_of(ARGV[1]) == num and q.deal == ARGV[4]
if not here or (ver ~= '' and q.ver ~= ver) then return unchanged('OTHER', now_text) end
local settled = ARGV[6]
if ver ~= '' then
  settled = call('HGET', q.key, '=') or settled
  write('HSET', q.key, '=', settled)
elseif not q.moved then
  write('HSET', K .. 'n:' .. num, 'm_' .. kind, settled)
  write('SPUBLISH', K .. 'wake', '')
end
flush()
return { 'DONE', now_text, settled }
