-- The clock: TIME of the master that runs the script, in Unix milliseconds, rounded down (P2).
-- Tests put a clock of their own in the place of this part.
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end
