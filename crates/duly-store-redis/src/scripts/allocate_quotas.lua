-- Deals the shares of a limit anew, after it was lowered (shares.rs): the home settles once what each
-- shard gets, and each takes it once.
--
-- KEYS  seq
-- ARGV  1 namespace  2 number  3 'pending' or 'dead'  4 deal
--       5 version (at home: settle 6 for all shards, unless that was done), or '' (take 6)
--       6 what each shard gets beyond its plain share, or what this one gets
-- reply OTHER now (something has changed: look again) | DONE now what_was_settled
local num, kind, ver = ARGV[2], ARGV[3], ARGV[5]
local q = quota_of(num, kind)
local here = num_of(ARGV[1]) == num and q.deal == ARGV[4]
if not here or (ver ~= '' and q.ver ~= ver) then
  touch_seq()
  return { 'OTHER', digits(now) }
end
local settled = ARGV[6]
if ver ~= '' then
  settled = call('HGET', q.key, '=') or settled
  write('HSET', q.key, '=', settled)
elseif not q.moved then
  write('HSET', K .. 'n:' .. num, 'm_' .. kind, settled)
  write('SPUBLISH', K .. 'wake', '')
end
flush()
return { 'DONE', digits(now), settled }
