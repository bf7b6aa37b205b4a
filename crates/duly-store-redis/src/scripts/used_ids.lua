-- Returns a function of k that is true if a timer, tombstone or dead letter has the k-th id.
local function used_ids(num, ids)
  local there = call('HMGET', K .. 'r:' .. num, unpack(ids))
  local tombstones = call('EXISTS', K .. 's:' .. num) == 1 and call('HMGET', K .. 's:' .. num, unpack(ids)) or {}
  local letters = call('EXISTS', K .. 'di:' .. num) == 1
  return function(k)
    if there[k] or tombstones[k] then return true end
    if not letters then return false end
    local from, to = '[' .. ids[k] .. NUL, '[' .. ids[k] .. NUL .. char(255)
    return #call('ZRANGEBYLEX', K .. 'di:' .. num, from, to, 'LIMIT', 0, 1) > 0
  end
end
