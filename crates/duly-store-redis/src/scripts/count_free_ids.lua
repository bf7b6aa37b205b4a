-- How many of some ids nothing has or had: for so many schedules the rate is asked (rate.rs).
--
-- KEYS  seq
-- ARGV  1 namespace, then ids
-- reply now, how many
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
