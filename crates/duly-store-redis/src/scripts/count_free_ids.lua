-- Counts the ids that no timer, tombstone or dead letter has: the rate is asked for that many schedule operations
-- (rate.rs).
--
-- KEYS  seq
-- ARGV  1 namespace, then ids
-- reply now, count
local num = num_of(ARGV[1])
local ids, free = {}, 0
for i = 2, #ARGV do ids[i - 1] = ARGV[i] end
if num then
  local is_used = used_ids(num, ids)
  for k = 1, #ids do
    if not is_used(k) then free = free + 1 end
  end
end
return { now_text, digits(free) }
