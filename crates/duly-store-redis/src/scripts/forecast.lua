-- How many pending timers of some lanes become claimable in each bucket.
--
-- KEYS  seq
-- ARGV  1 '1' to answer OWED when leases or firings have ended  2 namespace
--       3 the moment it is seen from, or '' for now  4 ms of a bucket  5 how many buckets
--       6 first lane  7 most lanes
-- reply OWED now | NONE now |
--       OK now, next lane or '', in flight, overdue, later, then number and count of each bucket
if ARGV[1] == '1' and owed() then return { 'OWED', digits(now) } end
local num = call('HGET', K .. 'nn', ARGV[2])
if not num or not control(num) then return { 'NONE', digits(now) } end
local seen, bucket, count = tonumber(ARGV[3]) or now, tonumber(ARGV[4]), tonumber(ARGV[5])
local from = math.floor(seen / bucket) * bucket
local to = from + bucket * count
local first, most = tonumber(ARGV[6]), tonumber(ARGV[7])
local last = tonumber(call('HGET', K .. 'nl:' .. num, 'count') or '0') + 2
local overdue, later, buckets = 0, 0, {}
local function add(i, n)
  if n > 0 then buckets[i] = (buckets[i] or 0) + n end
end
for lane = first, math.min(first + most - 1, last) do
  for _, class in ipairs({ 'f', 'r' }) do
    local set = set_of(num, lane, class)
    local all = call('ZCARD', set)
    if all > 0 then
      local due = call('ZCOUNT', set, '-inf', digits(seen))
      local beyond = call('ZCOUNT', set, digits(math.max(to, seen + 1)), '+inf')
      local within = all - due - beyond
      overdue, later = overdue + due, later + beyond
      if within > 0 and within <= 2 * count then
        local rows = call('ZRANGE', set, due, due + within - 1, 'WITHSCORES')
        for i = 2, #rows, 2 do add(math.floor((tonumber(rows[i]) - from) / bucket), 1) end
      elseif within > 0 then
        for i = 0, count - 1 do
          local low = '(' .. digits(seen)
          if i > 0 then low = digits(from + i * bucket) end
          add(i, call('ZCOUNT', set, low, '(' .. digits(from + (i + 1) * bucket)))
        end
      end
    end
  end
end
local next_lane = ''
if first + most <= last then next_lane = digits(first + most) end
local out = { 'OK', digits(seen), next_lane, call('HGET', K .. 'c:' .. num, 'leased') or '0', overdue, later }
for i, n in pairs(buckets) do
  out[#out + 1] = i
  out[#out + 1] = n
end
return out
