-- Allocates limits of lanes to the nodes that request a part. A node keeps its part until it requests less or is
-- released, so all parts together never exceed the cap.
--
-- KEYS  seq
-- ARGV  1 member id  then for each lane: name of the lane, cap, rate or '', part that the node keeps, part that it wants
-- reply 'GONE' (the member id was released) | 'OK', then for each lane: slots, rate or ''
expect_marker()
local run = ARGV[1]
if call('HGET', K .. 'runs', run) == 'gone' then return { 'GONE' } end

-- Returns the part of `amount` for this node: max-min fair between the nodes that want some. A remainder that does
-- not divide goes to other nodes each second. See deployment.rs of duly-store, part_of.
local turn = floor(now / 1000)
local function part(amount, wanted)
  table.sort(wanted, function(a, b)
    if a.wanted ~= b.wanted then return a.wanted < b.wanted end
    return before(a.run, b.run)
  end)
  local left, first = amount, 1
  -- A node that wants less than an equal part of the rest gets all that it wants.
  while first <= #wanted and floor(left / (#wanted - first + 1)) >= wanted[first].wanted do
    if wanted[first].run == run then return wanted[first].wanted end
    left = left - wanted[first].wanted
    first = first + 1
  end
  local short = {}
  for place = first, #wanted do short[#short + 1] = wanted[place].run end
  table.sort(short, before)
  for place, one in ipairs(short) do
    if one == run then
      local more = (place - 1 - turn) % #short < left % #short and 1 or 0
      return floor(left / #short) + more
    end
  end
  return 0
end

local out = { 'OK' }
for i = 2, #ARGV, 5 do
  local lane, cap, rate = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local keep, wants = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local key = K .. 'allot:' .. lane
  local wanted, others = {}, 0
  local all = call('HGETALL', key)
  for j = 1, #all, 2 do
    if all[j] ~= run then
      local held, want = string.match(all[j + 1], '^(%d+) (%d+)$')
      others = others + tonumber(held)
      wanted[#wanted + 1] = { run = all[j], wanted = tonumber(want) }
    end
  end
  if keep > 0 or wants > 0 then
    wanted[#wanted + 1] = { run = run, wanted = wants }
    local slots = math.max(math.min(part(cap, wanted), cap - others), 0)
    write('HSET', key, run, digits(math.max(slots, keep)) .. ' ' .. digits(wants))
    write('SADD', K .. 'allots:' .. run, lane)
    write('HSETNX', K .. 'runs', run, digits(now))
    out[#out + 1] = digits(slots)
    for _, one in ipairs(wanted) do one.wanted = rate or 0 end
    out[#out + 1] = rate and digits(part(rate, wanted)) or ''
  else
    write('HDEL', key, run)
    write('SREM', K .. 'allots:' .. run, lane)
    out[#out + 1] = '0'
    out[#out + 1] = rate and '0' or ''
  end
end
flush()
return out
