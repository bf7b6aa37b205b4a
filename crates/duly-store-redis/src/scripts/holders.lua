-- Returns the member ids that hold leases in this shard, or parts of lanes' limits.
--
-- KEYS  seq
-- ARGV  none
-- reply for each: member id
local out = {}
for _, run in ipairs(call('HKEYS', K .. 'runs')) do
  if call('EXISTS', K .. 'own:' .. run) + call('EXISTS', K .. 'allots:' .. run) > 0 then out[#out + 1] = run end
end
return out
