-- Lists namespaces in order of their names.
--
-- KEYS  seq
-- ARGV  1 name to begin after, or ''  2 most
-- reply now, then for each: name, number, version, settings, paused, resumes at, created at,
--       updated at
if ARGV[1] == '' then expect_marker() end
local out = { digits(now) }
for _, name in ipairs(names_after('names', ARGV[1], ARGV[2])) do
  local num = call('HGET', K .. 'nn', name)
  local f = call('HMGET', K .. 'n:' .. num, 'ver', 'settings', 'paused', 'resumes', 'created', 'updated')
  out[#out + 1] = { name, num, f[1], f[2], f[3] or '0', f[4] or '', f[5], f[6] }
end
return out
