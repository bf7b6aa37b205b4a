-- Lists the names in a shard with their numbers, in order of the names.
--
-- KEYS  seq
-- ARGV  1 name to begin after, or ''  2 most
-- reply for each: name, number
expect_marker()
local out = {}
for _, name in ipairs(names_after('names', ARGV[1], ARGV[2])) do
  out[#out + 1] = name
  out[#out + 1] = call('HGET', K .. 'nn', name)
end
return out
