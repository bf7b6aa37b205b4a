-- Defines large ordered sets, stored as blocks: the leaves of a B+ tree of two levels.
--
-- A sorted set of Redis takes about 145 bytes for each entry, but about 50 if it has at most 128 entries (a listpack).
-- So the set is split into blocks of at most BLOCK entries: `dir`:<n> are sorted sets. Their directory `dir` holds
-- (score, id NUL n) of the first entry for which each block was made.
--
-- 1. An entry belongs to the last block that begins at or before it, or else to the first block.
-- 2. No block is empty.
-- 3. Additions and removals of a script are collected, and written by flush().
local BLOCK = 64
local FILL = 48

-- Returns the rank of the first entry of a sorted set after (score, member), in the order of the set. It searches by
-- rank, not by offset: a million equal scores cost no more than two.
local function seek(set, score, member)
  local at = call('ZSCORE', set, member)
  if at and tonumber(at) == score then return call('ZRANK', set, member) + 1 end
  local low = call('ZCOUNT', set, '-inf', '(' .. digits(score))
  local high = call('ZCOUNT', set, '-inf', digits(score))
  while low < high do
    local middle = math.floor((low + high) / 2)
    local found = call('ZRANGE', set, middle, middle)[1]
    if before(member, found) then high = middle else low = middle + 1 end
  end
  return low
end

-- Returns the id at which a block begins, and the number of the block.
local find = string.find
local function begins(member)
  local cut = find(member, NUL, 1, true)
  return sub(member, 1, cut - 1), sub(member, cut + 1)
end
local function block_key(dir, member)
  return dir .. ':' .. sub(member, find(member, NUL, 1, true) + 1)
end

-- Returns the rank of the block that (at, id) belongs to. An entry at `at` is after (at, '').
local function rank_of_block(dir, at, id)
  return math.max(seek(dir, at, id .. NUL .. char(255)) - 1, 0)
end

-- Returns the directory's member of the block that (at, id) belongs to; nil if there is no block. After some calls
-- for one directory, a short directory is read as a whole.
local asked, directories = {}, {}
local function block_of(dir, at, id)
  local whole = directories[dir]
  if whole == nil then
    asked[dir] = (asked[dir] or 0) + 1
    if asked[dir] > 4 then
      whole = false
      if call('ZCARD', dir) <= 64 then
        local found = call('ZRANGE', dir, '0', '-1', 'WITHSCORES')
        whole = { n = #found / 2, at = {}, member = {} }
        for i = 1, whole.n do
          whole.member[i], whole.at[i] = found[i * 2 - 1], tonumber(found[i * 2])
        end
      end
      directories[dir] = whole
    end
  end
  if whole then
    local ats, low, high = whole.at, 1, whole.n
    while low < high do
      local middle = floor((low + high + 1) / 2)
      local begin = ats[middle]
      if begin < at or (begin == at and not before(id, (begins(whole.member[middle])))) then
        low = middle
      else
        high = middle - 1
      end
    end
    return whole.member[low]
  end
  local row = call('ZREVRANGEBYSCORE', dir, digits(at), '-inf', 'WITHSCORES', 'LIMIT', '0', '1')
  if not row[1] then return call('ZRANGE', dir, '0', '0')[1] end
  if tonumber(row[2]) == at and before(id, (begins(row[1]))) then
    local rank = rank_of_block(dir, at, id)
    return call('ZRANGE', dir, rank, rank)[1]
  end
  return row[1]
end

-- Changes of blocks by this script, by directory and member.
local touched = {}
local function touch(dir, member)
  local of_dir = touched[dir] or {}
  touched[dir] = of_dir
  local block = of_dir[member] or { add = {}, drop = {}, dropped = 0, lead = 0 }
  of_dir[member] = block
  return block
end
-- Adds an entry. `text` is the time as digits, if known.
local function block_add(dir, at, id, text)
  local add = touch(dir, block_of(dir, at, id) or '').add
  add[#add + 1] = { at, id, text or digits(at) }
end
-- Removes an entry. `place` is the number of entries before it in its block, if known.
local function block_drop(dir, member, id, place)
  local block = touch(dir, member)
  local dropped = block.dropped + 1
  block.drop[dropped], block.dropped = id, dropped
  if place == block.lead then block.lead = place + 1 end
end

-- Returns the next block number of a directory; no number is used twice.
local numbers = {}
local function new_number(dir)
  local last = numbers[dir] or tonumber(call('GET', dir .. ':last') or '0')
  numbers[dir] = last + 1
  return last + 1
end

-- Adds some of these entries to a sorted set.
local function add_rows(key, rows, from, till)
  local add = { 'ZADD', key }
  for i = from, till do
    add[#add + 1] = rows[i][3]
    add[#add + 1] = rows[i][2]
  end
  W[#W + 1] = add
end

-- Writes entries as blocks. The first block replaces `member`, unless that is ''.
local function write_parts(dir, member, rows)
  local parts = math.ceil(#rows / FILL)
  if #rows <= BLOCK then parts = 1 end
  local from = 1
  for part = 1, parts do
    local till = floor(#rows * part / parts)
    local replaces = part == 1 and member ~= ''
    local n = replaces and select(2, begins(member)) or new_number(dir)
    local begin = rows[from][2] .. NUL .. n
    -- The first block may have an entry before its old begin.
    if replaces and begin ~= member then gather('ZREM', dir, member) end
    gather('ZADD', dir, rows[from][3], begin)
    add_rows(dir .. ':' .. n, rows, from, till)
    from = till + 1
  end
end

local function in_order(a, b)
  if a[1] ~= b[1] then return a[1] < b[1] end
  return before(a[2], b[2])
end

-- Converts the collected changes into writes.
local function settle_block(dir, member, block)
  local add = block.add
  if member == '' then
    table.sort(add, in_order)
    return write_parts(dir, member, add)
  end
  local key = block_key(dir, member)
  local had = call('ZCARD', key)
  local left = had - block.dropped + #add
  if left == 0 then
    write('UNLINK', key)
    gather('ZREM', dir, member)
    return
  end
  if left <= BLOCK then
    if block.dropped > 0 and block.lead == block.dropped then
      -- All removed entries are at the front, so they are removed by rank, without a search.
      write('ZREMRANGEBYRANK', key, '0', block.lead - 1)
    elseif block.dropped > 0 then
      write('ZREM', key, unpack(block.drop))
    end
    if #add > 0 then add_rows(key, add, 1, #add) end
    return
  end
  table.sort(add, in_order)
  if block.dropped == 0 and had >= FILL / 2 then
    -- Entries after all existing ones go to new blocks; this block stays as it is.
    local last = call('ZRANGE', key, -1, -1, 'WITHSCORES')
    local begin = { tonumber(call('ZSCORE', dir, member)), (begins(member)) }
    if in_order({ tonumber(last[2]), last[1] }, add[1]) and in_order(begin, add[1]) then
      return write_parts(dir, '', add)
    end
  end
  local rows, there, gone = {}, call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}
  for _, id in ipairs(block.drop) do gone[id] = true end
  local i = 1
  for k = 1, #there, 2 do
    if not gone[there[k]] then
      local row = { tonumber(there[k + 1]), there[k], there[k + 1] }
      while add[i] and in_order(add[i], row) do
        rows[#rows + 1] = add[i]
        i = i + 1
      end
      rows[#rows + 1] = row
    end
  end
  for k = i, #add do rows[#rows + 1] = add[k] end
  -- The block is written again: Redis does not convert a large sorted set back to a listpack.
  write('UNLINK', key)
  write_parts(dir, member, rows)
end
settle_sets = function()
  for dir, of_dir in pairs(touched) do
    for member, block in pairs(of_dir) do settle_block(dir, member, block) end
  end
  for dir, last in pairs(numbers) do write('SET', dir .. ':last', last) end
  touched, numbers = {}, {}
end

-- Returns the first rows, at most `most`, and with `to` none after the first that is later than `to`: { id, at, at as
-- text, `mark`, member of the block, number of entries before it in the block }.
local function block_front(dir, most, to, mark)
  local rows, count, rank = {}, 0, 0
  while count < most do
    local members = call('ZRANGE', dir, digits(rank), digits(rank + floor(most / FILL)))
    if not members[1] then break end
    for _, member in ipairs(members) do
      local key, place = block_key(dir, member), 0
      -- Usually at most one entry is due.
      local step = count == 0 and to and 2 or most
      repeat
        local last = place + math.min(step, most - count) - 1
        local found = call('ZRANGE', key, digits(place), digits(last), 'WITHSCORES')
        for i = 1, #found, 2 do
          local at = tonumber(found[i + 1])
          count = count + 1
          rows[count] = { found[i], at, found[i + 1], mark, member, place }
          place = place + 1
          if to and at > to then return rows end
        end
        local all = #found < step * 2
        step = most
      until all or count >= most
      if count >= most then break end
    end
    rank = rank + #members
  end
  return rows
end

-- Returns the first time after `at` of any entry.
local function block_after(dir, at)
  local member = block_of(dir, at, char(255))
  if not member then return nil end
  local row = call('ZRANGEBYSCORE', block_key(dir, member), '(' .. digits(at), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  if row[2] then return tonumber(row[2]) end
  -- The first block may begin before its entry in the directory.
  for _, later in ipairs(call('ZRANGEBYSCORE', dir, '(' .. digits(at), '+inf', 'LIMIT', 0, 2)) do
    if later ~= member then return tonumber(call('ZRANGE', block_key(dir, later), 0, 0, 'WITHSCORES')[2]) end
  end
  return nil
end

-- Counts the entries up to a time, or all. It counts the first `exact` blocks; the other blocks are assumed to be as
-- full as those.
local function block_count(dir, to, exact)
  local blocks = call('ZCARD', dir)
  if blocks == 0 then return 0 end
  if to then blocks = math.max(call('ZCOUNT', dir, '-inf', digits(to)), 1) end
  local most = math.min(blocks, exact or blocks)
  local count = 0
  for i, member in ipairs(call('ZRANGE', dir, 0, most - 1)) do
    local key = block_key(dir, member)
    count = count + (i == blocks and to and call('ZCOUNT', key, '-inf', digits(to)) or call('ZCARD', key))
  end
  return floor(count * blocks / most)
end

-- Removes a set. One script removes at most `blocks_left` blocks in all. Returns true if the set is gone.
local blocks_left = 1000
local function unlink_blocks(dir)
  local count = call('ZCARD', dir)
  local taken = math.min(count, blocks_left)
  blocks_left = blocks_left - taken
  local keys = { 'UNLINK' }
  if taken > 0 then
    for _, member in ipairs(call('ZRANGE', dir, 0, taken - 1)) do keys[#keys + 1] = block_key(dir, member) end
  end
  if taken == count then
    keys[#keys + 1] = dir
    keys[#keys + 1] = dir .. ':last'
  elseif taken > 0 then
    write('ZREMRANGEBYRANK', dir, 0, taken - 1)
  else
    return false
  end
  W[#W + 1] = keys
  return taken == count
end
