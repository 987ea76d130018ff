<?php
if (!hash_equals((string) getenv('MAIL_KEY'), $_SERVER['HTTP_X_MAIL_KEY'] ?? '')) {
    http_response_code(403);
    exit;
}
define('MAIL_WORLD', $_SERVER['HTTP_X_MAIL_WORLD']);
define('MAIL_STATE', getenv('MAIL_ROOT') . '/' . MAIL_WORLD);
$_SERVER['SCRIPT_NAME'] = $_SERVER['PHP_SELF'] = '/index.php';
define('INSTALL_PATH', '/var/lib/roundcube/');
$_SERVER['SCRIPT_FILENAME'] = '/var/lib/roundcube/index.php';
chdir(INSTALL_PATH);
require_once 'program/include/iniset.php';

mt_srand((int) $_SERVER['HTTP_X_MAIL_SEED']);

/** PHP's own takes the time. */
function uniqid(string $prefix = '', bool $more_entropy = false): string
{
    $id = $prefix . sprintf('%08x%05x', mt_rand(), mt_rand(0, 0xfffff));
    return $more_entropy ? $id . sprintf('.%08d', mt_rand(0, 99999999)) : $id;
}

/** Roundcube's SQLite, without a log beside the file: nobody else uses it meanwhile. */
class rcube_db_world extends rcube_db_sqlite
{
    public $db_provider = 'sqlite';

    protected function dsn_string($dsn)
    {
        return 'sqlite:' . $dsn['database'];
    }

    protected function conn_configure($dsn, $dbh)
    {
        $dbh->query('PRAGMA journal_mode = MEMORY');
        $dbh->query('PRAGMA synchronous = OFF');
        $dbh->query('PRAGMA foreign_keys = ON');
    }
}

$mail = rcmail::get_instance(0, $GLOBALS['env'] ?? null);
$mail->plugins->register_hook('startup', function ($request) {
    $user = $_COOKIE['mail_user'] ?? '';
    if ($user !== '' && empty($_SESSION['user_id']) && $request['task'] !== 'logout'
            && empty($_POST['_user'])) {
        $request['task'] = 'login';
        $request['action'] = 'login';
    }
    return $request;
});
$mail->plugins->register_hook('authenticate', function ($login) {
    if (empty($_POST['_user']) && !empty($_COOKIE['mail_user'])) {
        $login['user'] = $_COOKIE['mail_user'];
        $login['pass'] = getenv('MAIL_PASSWORD');
        $login['valid'] = true;
        $login['cookiecheck'] = false;
    }
    return $login;
});
$mail->plugins->register_hook('login_after', function ($arguments) {
    // A page that was asked for before the login.
    parse_str(empty($_POST['_user']) ? ($_SERVER['QUERY_STRING'] ?? '') : '', $asked);
    return $asked + $arguments;
});
$mail->plugins->register_hook('storage_connect', function ($options) {
    $options['user'] = getenv('MAIL_KEY') . '/' . MAIL_WORLD . '/' . $options['user'];
    return $options;
});
$mail->plugins->register_hook('smtp_connect', function ($options) {
    $options['smtp_user'] = getenv('MAIL_KEY') . '/' . MAIL_WORLD . '/' . $_SESSION['username'];
    return $options;
});
require INSTALL_PATH . 'index.php';
